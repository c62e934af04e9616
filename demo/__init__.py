"""The demo's parts: a tiny model, model servers, jobs, and a device that is fed from outside Headway."""
