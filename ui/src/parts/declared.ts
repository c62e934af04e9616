// A device whose memory nobody measures: what is there by what was declared, and said to be so.

import type { DeviceRow } from "../api"

/** Bytes in use and free. Null: it is measured, or not readable. */
export function declared(device: DeviceRow): { used: number; free: number | null } | null {
  if (device.used_bytes !== null || device.confidence !== "declared") return null
  const used = device.holders.reduce((sum, one) => sum + (one.bytes ?? one.need_bytes ?? 0), 0)
  return { used, free: device.total_bytes === null ? null : Math.max(0, device.total_bytes - used) }
}
