import { generateKeyPair } from '../../src/crypto/key-pair.js';

describe('the kid of a new signing key', () => {
  it('does not begin with a hyphen, so that a command line does not take it for an option', () => {
    // One in 64 thumbprints does.
    const kids = Array.from({ length: 1_000 }, () => generateKeyPair().kid);
    expect(kids.filter((kid) => kid.startsWith('-'))).toEqual([]);
    expect(kids.filter((kid) => !/^[\w-]{43}$/.test(kid))).toEqual([]);
  });
});
