/**
 * Finds passwords that attackers guess first: the most used ones, and what is made of them (ASVS 6.2.4, 6.2.11). A
 * password is split into pieces, and its guesses are the product of theirs: a common word costs its rank, a row of the
 * keyboard or the alphabet 20, a repetition the number of repeats, a context word nothing. Invariant: the work is
 * bounded by the longest judged password, whatever the password is. Decision 4 says why this is not zxcvbn.
 */

/** The most used passwords of the configured minimum length, each of which is refused. */
const COMMON_COUNT = 10_000;
/** Guesses are added as decimal logarithms. A password that needs fewer than this is as weak as a common one. */
const MIN_GUESSES = Math.log10(COMMON_COUNT);
/** Longer passwords are in no list, unless the configured minimum makes users fill up a short one. */
const MAX_JUDGED_LENGTH = 40;
const MIN_PIECE_LENGTH = 3;
const MAX_PIECE_LENGTH = 36;

const ROW_GUESSES = Math.log10(20);
const YEAR_GUESSES = 2;
const ASCII_GUESSES = 1;
/** The attacker also tries where one piece ends, and which of its letters are written as digits or signs. */
const NEXT_PIECE_GUESSES = Math.log10(2);

/** Each is guessed forwards, backwards and in part. */
const ROWS = [
  'abcdefghijklmnopqrstuvwxyz',
  '012345678901234567890',
  '1234567890qwertyuiopasdfghjklzxcvbnm',
  'qwertzuiopasdfghjklyxcvbnm',
  'azertyuiopqsdfghjklmwxcvbn',
  '1q2w3e4r5t6y7u8i9o0p',
  'q1w2e3r4t5y6u7i8o9p0',
  '1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik9ol0p',
  'zaq1xsw2cde3vfr4bgt5nhy6mju7',
  '1qazxsw23edcvfr45tgbnhy67ujm',
  'qazwsxedcrfvtgbyhnujmikolp',
  'zaq12wsxcde34rfvbgt56yhnmju78ik',
  '!@#$%^&*()_+',
];

const LOOK_ALIKES: Readonly<Record<string, string>> = {
  '0': 'o',
  '1': 'i',
  '3': 'e',
  '4': 'a',
  '5': 's',
  '7': 't',
  '@': 'a',
  $: 's',
  '!': 'i',
};

export class GuessablePasswords {
  private readonly common: ReadonlySet<string>;
  private readonly maxJudgedLength: number;
  /** The decimal logarithm of the guesses of each piece. */
  private readonly pieces = new Map<string, number>();

  /** @param words in lower case, the most used first */
  constructor(words: readonly string[], minLength: number) {
    // Filtered before it is cut: of the 10,000 most used passwords, few are as long as a high minimum.
    this.common = new Set(words.filter((word) => word.length >= minLength).slice(0, COMMON_COUNT));
    this.maxJudgedLength = Math.max(MAX_JUDGED_LENGTH, 2 * minLength);
    for (const row of ROWS)
      for (const text of [row, Array.from(row).reverse().join('')])
        for (const piece of listPieces(text)) this.pieces.set(piece, ROW_GUESSES);
    for (let year = 1940; year < 2050; year++) this.pieces.set(String(year), YEAR_GUESSES);
    for (const [index, word] of words.slice(0, COMMON_COUNT).entries()) {
      const guesses = Math.log10(index + 1);
      if (word.length >= MIN_PIECE_LENGTH && guesses < (this.pieces.get(word) ?? MIN_GUESSES))
        this.pieces.set(word, guesses);
    }
  }

  /** @param contextWords what an attacker of this account knows, in lower case: its address, the names of the service */
  isGuessable(password: string, contextWords: ReadonlySet<string>): boolean {
    const text = password.toLowerCase();
    if (this.common.has(text)) return true;
    return text.length <= this.maxJudgedLength && this.countGuesses(text, contextWords) < MIN_GUESSES;
  }

  /** @returns the decimal logarithm of the guesses of the cheapest split */
  private countGuesses(text: string, contextWords: ReadonlySet<string>): number {
    const readings = [text, text.replace(/[013457@$!]/g, (character) => LOOK_ALIKES[character] ?? character)];
    const repetitions = findRepetitions(text);
    // The guesses of the first `end` characters.
    const guesses = [0];
    for (let end = 1; end <= text.length; end++) {
      let least = (guesses[end - 1] ?? 0) + countCharacterGuesses(text.charCodeAt(end - 1));
      const add = (start: number, pieceGuesses = Number.POSITIVE_INFINITY): void => {
        least = Math.min(least, (guesses[start] ?? 0) + NEXT_PIECE_GUESSES + pieceGuesses);
      };
      for (let start = Math.max(0, end - MAX_PIECE_LENGTH); start <= end - MIN_PIECE_LENGTH; start++)
        for (const reading of readings) {
          const piece = reading.slice(start, end);
          add(start, contextWords.has(piece) ? 0 : this.pieces.get(piece));
        }
      for (const { start, count } of repetitions[end - 1] ?? []) add(start, Math.log10(count));
      guesses.push(least);
    }
    return guesses.at(-1) ?? 0;
  }
}

/** A character outside ASCII is guessed late, because few keyboards have it. */
function countCharacterGuesses(codeUnit: number): number {
  return codeUnit < 128 ? ASCII_GUESSES : Math.log10(codeUnit);
}

interface Repetition {
  /** Where the repeats of what stands before them begin. */
  readonly start: number;
  readonly count: number;
}

/** @returns for each character the repetitions that end with it, the longest one for each length of the unit */
function findRepetitions(text: string): Repetition[][] {
  const found = text.split('').map((): Repetition[] => []);
  for (let unit = 1; unit <= text.length / 2; unit++) {
    let length = 0;
    for (let index = unit; index < text.length; index++) {
      length = text[index] === text[index - unit] ? length + 1 : 0;
      if (length >= unit) found[index]?.push({ start: index + 1 - length, count: Math.ceil(length / unit) });
    }
  }
  return found;
}

function* listPieces(row: string): Generator<string> {
  for (let start = 0; start < row.length; start++)
    for (let end = start + MIN_PIECE_LENGTH; end <= row.length; end++) yield row.slice(start, end);
}

/** @returns the texts in lower case, and the words in them that are long enough to be a piece */
export function listContextWords(texts: readonly string[]): Set<string> {
  const lower = texts.map((text) => text.toLowerCase());
  const words = lower.flatMap((text) => [text, text.replace(/[^\p{L}\p{N}]+/gu, ''), ...text.split(/[^\p{L}\p{N}]+/u)]);
  return new Set(words.filter((word) => word.length >= MIN_PIECE_LENGTH));
}
