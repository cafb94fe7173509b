import { recordLogLine, undocumented, writeRunLog } from './run-log.js';
import { endAll } from './service-process.js';
import { removeFolders } from './temporary-folders.js';

// Jest runs this file for every test file. Other modules are loaded once for many test files, so hooks in them would
// run for one.
beforeEach(() => recordLogLine(`── ${expect.getState().currentTestName}`));
afterEach(() => expect(undocumented.splice(0)).toEqual([]));
afterAll(writeRunLog);
afterAll(endAll);
afterAll(removeFolders);
