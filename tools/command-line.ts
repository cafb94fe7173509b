const EXIT_CODE_USAGE = 2;

/**
 * Prints the usage text for `--help`, and ends the process when the command line is not understood.
 * @param parse returns the options, or throws what is wrong with them
 */
export function readCommandLine<Options>(usage: string, parse: () => Options): Options {
  if (process.argv.includes('--help')) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parse();
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${usage}`);
    process.exit(EXIT_CODE_USAGE);
  }
}
