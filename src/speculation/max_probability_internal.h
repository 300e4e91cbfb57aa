// How sure a drafter without a confidence head is of the token it is about to draw.
#pragma once

#include <span>

#include "speculation/drafter.h"

namespace firesteel {

// max softmax(logits). Overwrites `logits`. `otherwise` when they are no numbers to speak of: 1
// where the argmax is then certain, as it is for sampling.
float MaxProbability(std::span<float> logits, float otherwise = 1);

// Appends to draft->confidence the largest probability of the distribution that its last token was
// drawn from; of the softmax where that was the argmax. It knows the distribution and not the draw,
// so deciding by it is lossless. Overwrites `logits`, those of the last token.
void AddMaxProbability(std::span<float> logits, Draft* draft);

}  // namespace firesteel
