import { type LogFields, type LogLevel, Log } from '../../src/foundation/logging/log.js';
import { recordLogLine } from './run-log.js';

/** A log that keeps its lines in memory, and shows them when a test fails. */
export class TestLog extends Log {
  readonly lines: (LogFields & { message: string; level: string })[] = [];

  protected override write(level: LogLevel, message: string, fields: LogFields): void {
    const line = { level, message, ...fields };
    this.lines.push(line);
    recordLogLine(JSON.stringify(line));
    super.write(level, message, fields);
  }

  events(name: string): LogFields[] {
    return this.lines.filter(({ event }) => event === name);
  }
}
