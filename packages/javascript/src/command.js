#!/usr/bin/env node
// The command `pintle`: the program that the package carries, with the same arguments.

import { spawn } from 'node:child_process';
import { findBinary } from './binary.js';
import { PintleError } from './error.js';

try {
  const child = spawn(findBinary(), process.argv.slice(2), { stdio: 'inherit' });
  // An interrupt from the terminal reaches the program as well. Its end is the end of the command.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => child.kill('SIGTERM'));
  child.on('exit', (status) => {
    process.exitCode = status ?? 1;
  });
} catch (error) {
  if (!(error instanceof PintleError)) {
    throw error;
  }
  process.stderr.write(`pintle: ${error.message}\n`);
  process.exitCode = 1;
}
