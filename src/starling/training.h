#pragma once

// Everything a program that trains networks needs.

#include "starling/data/dataset.h"
#include "starling/data/fashion_mnist.h"
#include "starling/data/loader.h"
#include "starling/data/source.h"
#include "starling/optim/schedules.h"
#include "starling/starling.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/interrupt.h"
#include "starling/train/monitor/monitor.h"
#include "starling/train/objectives.h"
#include "starling/train/trainer.h"
