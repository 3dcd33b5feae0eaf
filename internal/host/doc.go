// Package host tells what machine a trial ran on and what else that machine did meanwhile: facts,
// the kernel's UDP counters, what a process used, and noise. What a system does not tell is null,
// with the reason; nothing is guessed.
package host
