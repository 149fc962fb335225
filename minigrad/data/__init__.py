"""Data to train on: sets of images, drawn or read from files, and mini-batches made ahead of their use."""

from minigrad.data.augmentation import RandomCrop, RandomHorizontalFlip
from minigrad.data.cifar import CIFAR10, cifar10
from minigrad.data.drawings import SHAPES, shapes
from minigrad.data.folders import ImageFiles, ImageFolder, image_folder
from minigrad.data.handwriting import Digits, digits, mnist
from minigrad.data.minibatches import Loader, batches
from minigrad.data.prefetching import prefetch
from minigrad.data.split import Split

__all__ = [
    "CIFAR10", "SHAPES", "Digits", "ImageFiles", "ImageFolder", "Loader", "RandomCrop", "RandomHorizontalFlip", "Split",
    "batches", "cifar10", "digits", "image_folder", "mnist", "prefetch", "shapes",
]  # fmt: skip
