#pragma once

// Everything a program that trains networks needs.

#include "starling/data/datasets/dataset.h"
#include "starling/data/datasets/fashion_mnist.h"
#include "starling/data/loading/loader.h"
#include "starling/data/source.h"
#include "starling/optim/schedules.h"
#include "starling/starling.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/monitor/monitor.h"
#include "starling/train/objectives.h"
