export { removeRunDatabase as default } from './global-setup.js';
