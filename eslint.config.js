import eslint from '@eslint/js';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default tseslint.config(
  { ignores: ['**/dist', 'coverage', '.data', 'test/clients/src', 'test/clients/generated', '**/.venv', '**/.run'] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: 'tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    rules: {
      // A Nest module is a class that holds nothing but its decorator.
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // Responses are classes for the OpenAPI document and plain objects on the wire; rows are plain data too.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      '@typescript-eslint/no-misused-spread': 'off',
      'max-lines-per-function': ['error', { max: 45, skipBlankLines: true, skipComments: true }],
      // This code declares no enum (below) and only reads those of packages, and the rule takes a tenth of the time.
      '@typescript-eslint/no-unsafe-enum-assignment': 'off',
      // A key that was not encoded and read again can deadlock Node.js 20: see src/foundation/crypto/key-pair.ts.
      'no-restricted-syntax': [
        'error',
        {
          selector:
            "CallExpression[callee.name='generateKeyPairSync']:not(:has(Property[key.name='privateKeyEncoding']))",
          message: 'Encode the generated key, and read it with createPrivateKey.',
        },
        { selector: 'TSEnumDeclaration', message: 'Name the values in a union of literals, as everywhere else.' },
      ],
    },
  },
  {
    files: ['test/**', 'clients/typescript/test/**', 'packages/*/test/**'],
    // What runs outside of Jest is held to the rules of src/.
    ignores: [
      ...['test/browser/**', 'test/clients/**', 'test/alerts/**', 'test/guards/**', 'test/ha/**', 'test/example/**'],
      'test/support/programs/**',
    ],
    rules: {
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
  { files: ['src/foundation/database/migrations/**'], rules: { 'max-lines-per-function': 'off' } },
  {
    files: ['src/**/static/*.js'],
    languageOptions: { globals: { ...globals.browser, spec: 'readonly', SwaggerUIBundle: 'readonly' } },
  },
  { files: ['**/*.js'], extends: [tseslint.configs.disableTypeChecked], languageOptions: { globals: globals.node } },
);
