// A phone's width, as `@media (max-width: 40rem)` has it.

import { MediaQuery } from "svelte/reactivity"

export const phone = new MediaQuery("max-width: 40rem")
