// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line whose parser gave up: a word that it does not know comes before what it misses.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace tare {

// "tare eval: unknown option '--foo'; the nearest is --tokens", of the innermost subcommand that was named; "" where
// every word was known.
std::string UnknownWord(const CLI::App& app);

}  // namespace tare
