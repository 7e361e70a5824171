// SPDX-License-Identifier: Apache-2.0
// Both conventions, by name and against it.
#include "quant/interchange/folders/gptq_zero_points.h"

#include "tests/support/foreign_folder.h"

namespace tare::gptq_zero_points_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> NotesOf(const char* golden, const char* format) {
  EditedCheckpoint checkpoint(ForeignFolder(golden));
  SchemeOf(checkpoint)["checkpoint_format"] = format;
  const TemporaryFolder folder;
  checkpoint.Write(folder / "m");
  if (std::string(golden).starts_with("gptq")) ExpectSameBits(folder / "m", golden);
  return Checkpoint(folder / "m").notes();
}

// A word of zero points 0 and others: less one, it borrows, and the sum of words gives it back.
TEST(GptqZeroPoints, AWordLessOneBorrows) {
  const uint32_t zeros = 0x30f08001, stored = zeros - 0x11111111;
  PackedCodes packed{.words = reinterpret_cast<const std::byte*>(&stored), .bits = 4, .along_rows = true};
  const PackedCodes codes = ZeroCodes(packed, StoredZeros::kLessOne);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(codes.At(0, i), (zeros >> (4 * i)) & 15) << i;
  EXPECT_NE(packed.At(0, 2) + 1, codes.At(0, 2));  // field by field it would be another
}

TEST(GptqZeroPoints, AsymmetricOnesAreToldByTheirMean) {
  EXPECT_THAT(NotesOf("gptq", "gptq"), IsEmpty());
  EXPECT_THAT(NotesOf("gptq-v2", "gptq_v2"), IsEmpty());
  EXPECT_THAT(NotesOf("gptq", "gptq_v2"), ElementsAre(HasSubstr("less one, as their values show")));
  EXPECT_THAT(NotesOf("gptq-v2", "gptq"), ElementsAre(HasSubstr("as they are, as their values show")));
}

TEST(GptqZeroPoints, SymmetricOnesAreToldByTheirValue) {
  EXPECT_THAT(NotesOf("llama-gptq-named-wrong", "gptq"), ElementsAre(HasSubstr("as they are, as their values show")));
  EXPECT_THAT(NotesOf("llama-gptq-named-wrong", "gptq_v2"), IsEmpty());
}

TEST(GptqZeroPoints, SymmetricMustBeOneValue) {
  EditedCheckpoint checkpoint(ForeignFolder("llama-gptq-named-wrong"));
  auto& zeros = checkpoint.tensors.at("model.layers.0.mlp.up_proj.qzeros");
  zeros.SetBits(1, 0x88888878);
  ExpectRefused(checkpoint, "up_proj.weight': zero point of row 9, group 0 is stored as 7, another as 8", "sym: true");
  zeros.SetBits(0, 0x88888885);
  ExpectRefused(checkpoint, "zero point 0 is stored as 5, expected 7 or 8", "sym: true");
  for (size_t i = 0; i < zeros.bytes.size() / 4; ++i) zeros.SetBits(i, 0x77777777);
  ExpectRefused(checkpoint, "stored less one, those of", "expected one convention");
}

}  // namespace
}  // namespace tare::gptq_zero_points_test
