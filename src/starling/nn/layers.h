#pragma once

// The layers of feed-forward networks.

#include "starling/nn/activation.h"
#include "starling/nn/conv.h"
#include "starling/nn/dropout.h"
#include "starling/nn/linear.h"
#include "starling/nn/module.h"
#include "starling/nn/pool.h"
#include "starling/nn/reshape.h"
