"""The real llama.cpp HTTP server: chat, completions, /health, /props, /slots, /metrics. SIGTERM ends it."""

import argparse
import os
import signal

import xllamacpp


def main() -> None:
    """Serve one model until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="python -m demo.llama_server", description="The real llama.cpp server."
    )
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--port", type=int, required=True, help="on 127.0.0.1")
    parser.add_argument("--alias", default="tiny", help="the model name it answers to")
    parser.add_argument("--sleep-idle", type=int, default=-1, metavar="S", help="sleep after S idle seconds")
    parser.add_argument(
        "--load-delay", type=float, default=0.0, metavar="S", help="open the port S seconds late"
    )
    options = parser.parse_args()

    ends = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(
        signal.SIG_BLOCK, ends
    )  # before the server's threads exist: none of them may take one
    if options.load_delay > 0:
        print(f"opening the port in {options.load_delay:g} s", flush=True)
        if signal.sigtimedwait(ends, options.load_delay) is not None:
            return
    server = xllamacpp.Server(_parameters(options))
    print("listening on", server.listening_address, flush=True)
    signal.sigwait(ends)
    os._exit(0)  # tearing the server down waits for streams under way; a stop does not


def _parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.model
    parameters.model_alias = {options.alias}
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = options.port
    parameters.sleep_idle_seconds = options.sleep_idle
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = 1
    parameters.endpoint_slots = parameters.endpoint_metrics = parameters.endpoint_props = True
    return parameters


if __name__ == "__main__":
    main()
