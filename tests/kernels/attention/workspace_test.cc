// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/aligned.h"
#include "tests/support/call.h"

namespace tare::workspace_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Piece {
  char* bytes;
  double* numbers;
};

struct ToyLayout {
  Piece TakePacked(Arena& arena) const { return {arena.Take<char>(65), arena.Take<double>(3)}; }
  Piece TakeScratch(Arena& arena) const { return {arena.Take<char>(0), arena.Take<double>(17)}; }
};

TEST(Workspace, PiecesBeginOnCacheLines) {
  Arena arena(1 << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Take<char>(1)), uintptr_t{1} << 20);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Take<float>(16)), (1 << 20) + 64u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.Take<float>(17)), (1 << 20) + 128u);
  EXPECT_EQ(arena.used(), 256u);
  EXPECT_EQ(arena.end(), (1 << 20) + 256u);
}

TEST(Workspace, ScratchesFollowThePackedOneAfterTheOther) {
  SetThreads(3);
  const ToyLayout layout;
  ASSERT_EQ(BytesOf(layout), 128u + 64 + 3 * 192);
  AlignedBuffer<std::byte> memory(BytesOf(layout));
  const Workspace workspace(layout, memory.span());
  const auto offset = [&](const void* piece) { return static_cast<const std::byte*>(piece) - memory.data(); };
  EXPECT_EQ(offset(workspace.Packed().bytes), 0);
  EXPECT_EQ(offset(workspace.Packed().numbers), 128);
  for (int thread = 0; thread < 3; ++thread)
    EXPECT_EQ(offset(workspace.Scratch(thread).numbers), 192 + thread * 192) << thread;
  SetThreads(0);
}

TEST(Workspace, IsForTheThreadsThatTheCallStates) {
  const ThreadsOfCalls three(3);
  EXPECT_EQ(BytesOf(ToyLayout()), 128u + 64 + 3 * 192);
}

TEST(Workspace, RefusesMemoryThatIsTooSmallOrMisaligned) {
  SetThreads(1);
  const ToyLayout layout;
  AlignedBuffer<std::byte> memory(1024);
  EXPECT_THAT(Call([&] { Workspace(layout, memory.span().first(383)); }),
              ThrowsMessage<Error>(HasSubstr("attention workspace: got 383 bytes, expected 384")));
  EXPECT_THAT(Call([&] { Workspace(layout, memory.span().subspan(32)); }),
              ThrowsMessage<Error>(HasSubstr("attention workspace: got a pointer off the 64-byte boundary")));
  SetThreads(0);
}

}  // namespace
}  // namespace tare::workspace_test
