// Finds the program of the server.

import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PintleError } from './error.js';

/** The folder of the programs that the package carries, one folder for each platform. */
const PACKAGED = fileURLToPath(new URL('../bin', import.meta.url));

/** @type {typeof import('./index.js').findBinary} */
export function findBinary(binary) {
  if (binary !== undefined) {
    return program(binary, 'the given binary');
  }
  const packaged = join(PACKAGED, `${process.platform}-${process.arch}`, 'pintle');
  if (existsSync(packaged)) {
    return packaged;
  }
  const named = process.env['PINTLE_BINARY'];
  if (named) {
    return program(named, 'PINTLE_BINARY');
  }
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  // The command that npm links into this folder asks for the program itself.
  const found = folders.filter((folder) => folder && !folder.endsWith(join('node_modules', '.bin')));
  const path = found.map((folder) => resolve(folder, 'pintle')).find(isProgram);
  if (path === undefined) {
    throw new PintleError(
      `no binary of pintle: this package has none for ${process.platform}-${process.arch}, ` +
        'PINTLE_BINARY is not set, and the PATH has none',
    );
  }
  return path;
}

/**
 * @param {string} path
 * @param {string} source
 */
function program(path, source) {
  if (!isProgram(path)) {
    throw new PintleError(`${source} is not a program: ${path}`);
  }
  return resolve(path);
}

/** @param {string} path */
function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
