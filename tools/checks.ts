import { Cleanup } from './cleanup.js';

const EXIT_CODE_FAILED = 1;

/** Prints and counts what a program outside of Jest checks. Its last line is the count, which the CI script adds up. */
export class Checks {
  private passed = 0;
  private failed = 0;
  private skipped = 0;

  /** Runs the program and reports. The exit code is 1 when a check or the program failed, and when nothing was checked. */
  async around(program: (cleanup: Cleanup) => Promise<void>): Promise<void> {
    await Cleanup.around(async (cleanup) => {
      try {
        await program(cleanup);
      } catch (error) {
        console.error(error);
        this.failed += 1;
      }
    });
    const skipped = this.skipped > 0 ? `, ${this.skipped} skipped` : '';
    console.log(`${this.passed} passed, ${this.failed} failed${skipped}`);
    if (this.haveFailed || this.passed === 0) process.exitCode = EXIT_CODE_FAILED;
  }

  get haveFailed(): boolean {
    return this.failed > 0;
  }

  note(name: string, isTrue: boolean, found: string | number = ''): void {
    this.add(isTrue ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 });
    console.log(isTrue ? `✓ ${name}` : `✗ ${name}\n  ${found}`);
  }

  /** Reports what this machine cannot check. */
  skip(name: string, obstacle: string): void {
    this.skipped += 1;
    console.log(`- ${name}: skipped: ${obstacle}`);
  }

  /** Fails when the check throws. */
  async run(name: string, check: () => unknown): Promise<void> {
    try {
      await check();
      this.note(name, true);
    } catch (error) {
      this.note(name, false, describeFailure(error));
    }
  }

  /** Adds what another program has counted. */
  add({ passed, failed }: { passed: number; failed: number }): void {
    this.passed += passed;
    this.failed += failed;
  }
}

/** Includes the output of a program whose failure `child_process` reports. */
function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stdout = '', stderr = '' } = error as { stdout?: string | Buffer; stderr?: string | Buffer };
  return `${error.message}\n${stdout.toString()}${stderr.toString()}`.trim();
}
