// SPDX-License-Identifier: Apache-2.0
// The towers of CLIP, as transformers' CLIPTextModelWithProjection and CLIPVisionModelWithProjection save them, and the
// same with differential attention (DiffCLIP, arXiv 2503.06626). A tower is a model of its own: its head is the projection
// into the width where both towers meet, and its input token ids or images (images.h).
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kClipText, kClipVision, kDiffClipText, kDiffClipVision;

}  // namespace tare
