// SPDX-License-Identifier: Apache-2.0
// Tasks for CLIP's towers: cosines of images and prompts. MODEL is one tower; the other runs as stored, once.
//
//   zero_shot=FILE   the share of N images whose own prompt has the largest cosine (acc), or is among the first five
//                    (acc5). Source: Radford et al. 2021, section 3.1
//   retrieval=FILE   image_r1, image_r5: the share of prompts whose own image ranks first, or among the first five;
//                    text_r1, text_r5: the share of images with one of their own prompts there, of those that have
//                    one. Source: Karpathy and Fei-Fei 2015, recall at K
//
// FILE (.safetensors, .h5, .npz) has `images` [N,3,S,S] as the tower was trained on (resized and normalized), `prompts`
// [C,T] of token ids with any padding, and `labels`, integers from 0: for zero_shot [N], the prompt of each image; for
// retrieval [C], the image of each prompt. A prompt's embedding is read at its largest id (CLIP's end of text), an
// image's at the class token. Of equal cosines the first ranks higher.
#pragma once

#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kZeroShotTask, kRetrievalTask;

// A tower's output for images, or all prompts, of FILE: [rows, width], each of length 1.
struct Embeddings {
  int64_t width = 0;
  std::vector<float> values;
  std::vector<size_t> places;  // [rows] in FILE, rising

  int64_t rows() const { return width == 0 ? 0 : std::ssize(values) / width; }
};
// Images: those that options.limit and options.from take (TakenPlaces).
Embeddings EmbedAll(Model& tower, SiteVisitors visitors, const std::filesystem::path& file,
                    const WindowOptions& options, const Progress& progress);

// The tower named in the options, else the one in the folder of the same name with text for vision, or vision for text.
std::filesystem::path OtherTower(const Model& tower, const TaskOptions& options);

}  // namespace tare
