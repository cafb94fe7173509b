import { readFileSync } from 'node:fs';

/** `utime` and `stime` in /proc count in USER_HZ, which is 100 wherever Linux runs. */
const MICROSECONDS_PER_TICK = 10_000;
/** The positions after the name of the program (proc_pid_stat(5)). */
const [UTIME, STIME] = [11, 12];

/** @returns the CPU time of a process, its threads and its children, in microseconds; NaN where /proc does not exist */
export function readCpuMicroseconds(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    const own = (Number(fields[UTIME]) + Number(fields[STIME])) * MICROSECONDS_PER_TICK;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean);
    return children.map((child) => readCpuMicroseconds(Number(child))).reduce((sum, cpu) => sum + cpu, own);
  } catch {
    return NaN;
  }
}

/** @returns the resident memory of a process; undefined where /proc does not exist */
export function readResidentMegabytes(pid: number): number | undefined {
  try {
    const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? [];
    return kilobytes === undefined ? undefined : Math.round(Number(kilobytes) / 1024);
  } catch {
    return undefined;
  }
}

/**
 * @returns how many files and connections this process may open, because Node.js raises the soft limit to the hard one;
 * undefined where /proc does not exist
 */
export function readMaxOpenFiles(): number | undefined {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
