// SPDX-License-Identifier: Apache-2.0
// The exported folder computes what the quantized file computes, bit for bit.
#include "experiments/quantize/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/model/model.h"
#include "experiments/quantize/quantize.h"
#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare {
namespace {

TEST(Export, TheFolderIsTheSameModel) {
  const TemporaryFolder folder;
  for (const char* golden : {"llama-old-config", "diffllama-gqa"}) {
    Quantize({GoldenFolder(golden), Plan::Parse("weights=int4/group16"), folder / "q.h5"}, {});
    ExportDequantized(folder / "q.h5", folder / golden);
    Model file(folder / "q.h5"), exported(folder / golden);
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 9, 30, 4, 4, 17});
    EXPECT_EQ(LogitsOf(file, batch, {}), LogitsOf(exported, batch, {})) << golden;
    EXPECT_EQ(GetFile(folder.path() / golden / "config.json"), GetFile(GoldenFolder(golden) / "config.json"));
    EXPECT_THAT([&] { ExportDequantized(folder / "q.h5", folder / golden); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("is there already")));
  }
}

}  // namespace
}  // namespace tare
