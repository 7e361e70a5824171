// SPDX-License-Identifier: Apache-2.0
// Tasks for CLIP's towers: cosines of images and prompts. MODEL is one tower, on which the plan runs; the other one is
// run once, as stored.
//
//   zero_shot=FILE   of N images the share whose own prompt has the largest cosine (acc), or is among the first five
//                    (acc5). Source: Radford et al. 2021, section 3.1
//   retrieval=FILE   image_r1, image_r5: the share of prompts whose own image is the first, or among the first five;
//                    text_r1, text_r5: the share of images that have a prompt of their own there. Source: Karpathy and
//                    Fei-Fei 2015, recall at K
//
// FILE (.safetensors, .h5, .npz) has `images` [N,3,S,S] as the tower was trained to see them (resized and normalized),
// `prompts` [C,T] of token ids with whatever pads them, and `labels` of integers from 0: zero_shot's are [N], the
// prompt of each image, and retrieval's [C], the image of each prompt. A prompt's embedding is read where its largest
// id stands (CLIP's end of text), an image's at the class token. Among equal cosines the first ranks higher.
#pragma once

#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kZeroShotTask, kRetrievalTask;

// What a tower gives for every image, or prompt, of FILE: [rows, width], each of length 1.
struct Embeddings {
  int64_t width = 0;
  std::vector<float> values;

  int64_t rows() const { return width == 0 ? 0 : std::ssize(values) / width; }
};
Embeddings EmbedAll(Model& tower, SiteVisitors visitors, const std::filesystem::path& file, int64_t limit,
                    const Progress& progress);

// The one of the options, else the one whose folder is called the same with text for vision, or vision for text.
std::filesystem::path OtherTower(const Model& tower, const TaskOptions& options);

// How many columns stand before `own` in a row of cosines.
int64_t RankOf(std::span<const float> cosines, int64_t own);

}  // namespace tare
