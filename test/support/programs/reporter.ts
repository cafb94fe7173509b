import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import {
  DefaultReporter,
  VerboseReporter,
  type AggregatedResult,
  type ReporterOnStartOptions,
  type Test,
  type TestContext,
  type TestResult,
} from '@jest/reporters';
import { fromRoot } from '../from-root.js';
import { LOG_FOLDER_VARIABLE, logFileIn } from './log-file.js';

const MAX_LINES = 40;
const MS_PER_SECOND = 1_000;
const BaseReporter = process.argv.includes('--verbose') ? VerboseReporter : DefaultReporter;

/**
 * Prints how many files have run, and names each by its source, as `npm run test:jest -- <path>` takes it. Makes the
 * folder for the log files of one run before the workers start, and removes that folder after a green run.
 */
export default class RunReporter extends BaseReporter {
  private folder?: string;
  private finished = 0;
  private total = 0;

  override onRunStart(results: AggregatedResult, options: ReporterOnStartOptions): void {
    super.onRunStart(results, options);
    this.finished = 0;
    this.folder = mkdtempSync(join(tmpdir(), 'platform-auth-test-logs-'));
    process.env[LOG_FOLDER_VARIABLE] = this.folder;
  }

  override onTestResult(test: Test, result: TestResult, results: AggregatedResult): void {
    this.finished += 1;
    this.total = results.numTotalTestSuites;
    super.onTestResult(test, result, results);
    if (result.numFailingTests > 0) this.showLog(test.path);
  }

  override printTestFileHeader(path: string, _config: unknown, result: TestResult): void {
    const verdict = result.numFailingTests > 0 || result.testExecError ? 'FAIL' : 'PASS';
    const seconds = (result.perfStats.runtime / MS_PER_SECOND).toFixed(1);
    this.log(`${verdict} ${toSourcePath(path)} (${this.finished} of ${this.total} files, ${seconds} s)`);
  }

  override onRunComplete(contexts?: Set<TestContext>, results?: AggregatedResult): void {
    super.onRunComplete();
    if (results?.numFailedTests === 0 && this.folder !== undefined)
      rmSync(this.folder, { recursive: true, force: true });
  }

  private showLog(path: string): void {
    if (this.folder === undefined) return;
    const file = logFileIn(this.folder, path);
    if (!existsSync(file)) return;
    const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
    this.log([`The last log lines (all: ${file}):`, ...lines.slice(-MAX_LINES)].join('\n'));
  }
}

/** @returns the path of the source of a compiled file, from the root of the project */
function toSourcePath(path: string): string {
  return relative(fromRoot('dist'), path).replaceAll(sep, '/').replace(/\.js$/, '.ts');
}
