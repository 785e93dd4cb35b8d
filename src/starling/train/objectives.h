#pragma once

// All objectives.

#include "starling/train/objectives/classify.h"
#include "starling/train/objectives/next_token.h"
#include "starling/train/objectives/own_loss.h"
#include "starling/train/objectives/reconstruct.h"
#include "starling/train/objectives/regress.h"
