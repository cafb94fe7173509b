import { join } from 'node:path';
import { formatTable, wrapText } from '../../src/cli/terminal.js';
import { Cli } from '../support/cli.js';

describe('a table', () => {
  it('prints the lines of a cell below each other, and escapes line breaks in values', () => {
    const rows = formatTable(['what'], [{ what: ['first', 'second\nforged', 'red \u001b[31m'] }]).split('\n');
    expect(rows.slice(2, -1).map((row) => row.replaceAll('│', '').trim())).toEqual([
      'first',
      'second\ufffdforged',
      'red \ufffd[31m',
    ]);
  });
});

describe('the findings of doctor', () => {
  it('are printed with the remedy below the fault', async () => {
    const cli = new Cli('http://127.0.0.1:9', {});
    const map = join(import.meta.dirname, '../../platform.yaml');
    const { code, stdout } = await cli.run('doctor', '--map', map, '--env-dir', cli.folder);
    cli.remove();
    expect(code).toBe(1);
    expect(stdout).not.toContain('\ufffd');
    expect(stdout).toMatch(/│ broken +│ auth\.env +│\n│ +│ The file is missing\. +│\n│ +│ → Run init/);
  });
});

describe('wrapped text', () => {
  it('breaks no word, also one that is longer than a line', () => {
    const path = `/srv/${'a'.repeat(90)}/env/mcp.env`;
    const text = `The configuration is not usable:\n- chmod 600 ${path}. ${'If it is not yours, ask. '.repeat(5).trim()}`;
    const lines = wrapText(text);
    expect(lines.join(' ').split(' ')).toEqual(text.split(/\s+/));
    expect(lines[0]).toBe('The configuration is not usable:');
    expect(lines.filter((line) => line.length > 72)).toEqual([`${path}.`]);
  });
});
