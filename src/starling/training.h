#pragma once

// Everything a program that trains networks needs.

#include "starling/data/dataset.h"
#include "starling/data/fashion_mnist.h"
#include "starling/data/loader.h"
#include "starling/data/source.h"
#include "starling/starling.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/interrupt.h"
#include "starling/train/objectives.h"
#include "starling/train/trainer.h"
