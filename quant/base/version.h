// SPDX-License-Identifier: Apache-2.0
// Which Tare these headers are of; CMakeLists.txt reads it here.
#pragma once

#define TARE_VERSION_STRING "0.1.0"
#define TARE_VERSION_NUMBER 100  // 10000 major + 100 minor + patch, for #if
