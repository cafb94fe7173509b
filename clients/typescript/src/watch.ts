/** Of a connection that outlives the request that opened it. To be closed when the connection ends. */
export interface Watch {
  close(): void;
}
