/** Calls the listener at the first SIGTERM or SIGINT, and ignores later ones. */
export function onStopSignal(listener: (signal: NodeJS.Signals) => void): void {
  let isStopping = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (!isStopping) listener(signal);
    isStopping = true;
  };
  process.on('SIGTERM', stop).on('SIGINT', stop);
}
