import { fromRoot } from '../support/from-root.js';
import { testRollingRestart } from './rolling-restart.js';

testRollingRestart('TypeScript', () => ['node', fromRoot('dist/test/rolling-restart/replica.js')]);
