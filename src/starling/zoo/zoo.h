#pragma once

// The networks: by name in table.h, and each as a function or class of its own.

#include "starling/zoo/nets/alexnet.h"
#include "starling/zoo/nets/dense.h"
#include "starling/zoo/nets/gpt.h"
#include "starling/zoo/nets/lenet.h"
#include "starling/zoo/nets/recurrent.h"
#include "starling/zoo/nets/resnet.h"
#include "starling/zoo/table.h"
