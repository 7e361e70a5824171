// SPDX-License-Identifier: Apache-2.0
// tests/tools/instructions_test.cc tests the effect of a level on the program; here it would apply to every test.
// tests/tools/command_test.cc tests what the program writes with ONEDNN_VERBOSE.
#include "kernels/product/library_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <dnnl.hpp>

#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::library_settings_test {
namespace {

TEST(InstructionSet, UnknownLevelsAreRefused) {
  for (const char* level : {"", "avx", "AVX2", "avx512_core"}) {
    EXPECT_THAT(
        Call([&] { LimitInstructions(level); }),
        testing::ThrowsMessage<Error>(testing::HasSubstr(std::string("TARE_MAX_ISA: got '") + level + "', expected ")));
  }
}

// What making and running a kernel of oneDNN writes.
std::string Written() {
  testing::internal::CaptureStdout();
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::desc shape({4, 4}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab);
  dnnl::memory from(shape, engine), to(shape, engine);
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return testing::internal::GetCapturedStdout();
}

TEST(OneDnnLines, AreNotWrittenOnceSilenced) {
  ASSERT_EQ(dnnl::set_verbose(1), dnnl::status::success);
  EXPECT_THAT(Written(), testing::HasSubstr("onednn_verbose"));
  SilenceOneDnn();
  EXPECT_EQ(Written(), "");
}

// Nothing comes from the first use, where a processor's identification is missing (ARM in a container), and standard
// error is as it was.
TEST(OneDnn, IsMetInSilence) {
  testing::internal::CaptureStderr();
  MeetOneDnn();
  std::fputs("after", stderr);
  std::fflush(stderr);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "after");
}

}  // namespace
}  // namespace tare::library_settings_test
