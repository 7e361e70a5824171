// SPDX-License-Identifier: Apache-2.0
// Describes a usage error in one line that begins with the command. An unknown word is reported before a missing one,
// with the nearest known word, or all of them if none is near:
//
//   tare eval: unknown option '--taks'; the nearest is --tasks
//   tare bench: got no command, expected one of forward linear attention
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace tare {

std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tare
