// SPDX-License-Identifier: Apache-2.0
// A call whose error a test asks for: EXPECT_THAT(Call([&] { ... }), ThrowsMessage<Error>(...)).
//
// Every lambda is a type of its own, and gmock compiles its matcher again for each type: 80 ms of the compiler for
// each of some 500 calls. As one type for all of them they take 20 ms.
#pragma once

#include <functional>

namespace tare {

using Call = std::function<void()>;

}  // namespace tare
