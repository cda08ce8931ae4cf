// The error of the package.

export class PintleError extends Error {
  name = 'PintleError';
}
