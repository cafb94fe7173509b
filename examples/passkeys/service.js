// The address of platform-auth. serve.ts answers the one of its command line instead.
export const service = 'http://localhost:7701';
