const BAR_WIDTH = 30;
const LINES_BETWEEN_REPORTS = 10_000;

/** Shows on standard error how far a long run is: a bar on a terminal, else a line now and then. */
export class Progress {
  private reported = 0;

  constructor(
    /** Of the work in the unit of `done`; undefined when it is not known. */
    private readonly total: number | undefined,
    private readonly stream: Pick<NodeJS.WriteStream, 'isTTY' | 'write'> = process.stderr,
  ) {}

  show(done: number, lines: number): void {
    if (this.stream.isTTY) this.stream.write(`\r${this.draw(done)}${lines} lines`);
    else if (lines - this.reported >= LINES_BETWEEN_REPORTS) {
      this.reported = lines;
      this.stream.write(`… ${lines} lines so far\n`);
    }
  }

  /** Removes the bar. */
  clear(): void {
    if (this.stream.isTTY) this.stream.write('\r\u001b[K');
  }

  private draw(done: number): string {
    if (this.total === undefined || this.total === 0) return '';
    const share = Math.min(1, done / this.total);
    const filled = Math.round(share * BAR_WIDTH);
    return `[${'#'.repeat(filled)}${'-'.repeat(BAR_WIDTH - filled)}] ${String(Math.floor(share * 100)).padStart(3)} % `;
  }
}
