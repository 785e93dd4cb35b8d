#pragma once

// Everything a program that trains networks needs, on one worker or on several.

#include "starling/data/datasets/dataset.h"
#include "starling/data/datasets/fashion_mnist.h"
#include "starling/data/loading/loader.h"
#include "starling/data/source.h"
#include "starling/dist/comm/threads/threads_comm.h"
#include "starling/dist/launch/world.h"
#include "starling/dist/strategy/allreduce.h"
#include "starling/dist/strategy/backup_workers.h"
#include "starling/dist/strategy/easgd.h"
#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/local_sgd.h"
#include "starling/optim/schedules.h"
#include "starling/starling.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/monitor/monitor.h"
#include "starling/train/objectives.h"
#include "starling/train/saved_model/saved_model.h"
