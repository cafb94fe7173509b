import { findVerifierPython } from '../../tools/verifier-python.js';
import { fromRoot } from '../support/from-root.js';
import { testRollingRestart } from './rolling-restart.js';

testRollingRestart('Python', () => {
  const found = findVerifierPython();
  if ('python' in found) return [found.python, fromRoot('test/rolling-restart/replica.py')];
  throw new Error(found.obstacle);
});
