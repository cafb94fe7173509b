import { removeRunDatabase } from './run-database.js';

export default removeRunDatabase;
