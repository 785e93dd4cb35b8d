#pragma once

// All networks of the zoo: by name in table.h, and each as a function or class.

#include "starling/zoo/nets/alexnet.h"
#include "starling/zoo/nets/autoencoder.h"
#include "starling/zoo/nets/dense.h"
#include "starling/zoo/nets/googlenet.h"
#include "starling/zoo/nets/gpt.h"
#include "starling/zoo/nets/lenet.h"
#include "starling/zoo/nets/local_image.h"
#include "starling/zoo/nets/mobilenet.h"
#include "starling/zoo/nets/rbm.h"
#include "starling/zoo/nets/recurrent.h"
#include "starling/zoo/nets/resnet.h"
#include "starling/zoo/nets/seq2seq.h"
#include "starling/zoo/nets/transformer.h"
#include "starling/zoo/nets/unet.h"
#include "starling/zoo/nets/vgg.h"
#include "starling/zoo/pretrain/autoencoder.h"
#include "starling/zoo/pretrain/kinds.h"
#include "starling/zoo/pretrain/rbm.h"
#include "starling/zoo/table.h"
