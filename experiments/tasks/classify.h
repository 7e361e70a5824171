// SPDX-License-Identifier: Apache-2.0
// imagenet=FOLDER or classify=FILE: a classifier of images, on images with labels. The share of N images whose own
// class has the largest logit (acc; of equal ones the first class), or is in five (acc5), and mean -ln p(label) (nll).
//
// FOLDER has a folder for each class (arrays/image_folder.h). FILE (.safetensors, .h5, .npz) has `images` [N,3,S,S], in
// 8 bits as decoded, resized and cropped, or normalized in floating point, and `labels`, integers [N] from 0. An image
// with its label is a sequence whose last token is only predicted, from the patches: so divergence reads both too.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiments/passes/sequences.h"
#include "experiments/tasks/perplexity.h"
#include "experiments/tasks/task.h"

namespace tare {

extern const TaskKind kClassifyTask, kImagenetTask;

// The images that options.limit and options.from take (TakenPlaces), each with its label. Throws Error for images and
// labels that do not fit the model or each other, and for options of texts.
CutText LabelledImages(const std::filesystem::path& file, const ModelConfig& config, const WindowOptions& options);

// The task's figures, and the loss of each image (image_losses, image_counts). Nothing if the mean loss is not finite.
std::optional<Json> ClassFigures(const std::vector<TokenLoss>& images);

// ---- What other tasks share

// Integers [.., columns] of an array of a file, or the labels of a folder's images.
struct Integers {
  std::vector<int64_t> shape, values;
};
// Throws Error unless the array has so many dimensions, all of some size.
Integers ReadIntegers(const std::filesystem::path& path, const std::string& name, size_t dimensions);
// Labels, all below `below`, of the items at these places of the file, which rise.
std::vector<int64_t> LabelsOf(const std::filesystem::path& file, std::span<const size_t> places, const char* of_what,
                              int64_t below);
// The number of values that rank before `own` in a row.
int64_t RankOf(std::span<const float> values, int64_t own);
// name, name_stderr, name_outcomes: the share of ranks below k.
void AddShareBelow(const std::vector<int64_t>& ranks, int64_t k, const std::string& name, Json& figures);

}  // namespace tare
