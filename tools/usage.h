// SPDX-License-Identifier: Apache-2.0
// What is wrong with a command line whose parser gave up, in one line that begins with the command. A word that it does
// not know comes before what it misses, with the nearest that it knows, or all where none is near:
//
//   tare eval: unknown option '--taks'; the nearest is --tasks
//   tare bench: got no command, expected one of forward linear attention
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace tare {

std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tare
