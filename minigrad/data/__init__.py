"""Data to train on: images, drawn or read from files, text and rows of digits, and mini-batches made ahead of use."""

from minigrad.data.augmentation import RandomCrop, RandomHorizontalFlip
from minigrad.data.cifar import CIFAR10, cifar10
from minigrad.data.drawings import SHAPES, shapes
from minigrad.data.folders import ImageFiles, ImageFolder, image_folder
from minigrad.data.handwriting import Digits, digits, mnist
from minigrad.data.minibatches import Loader, batches
from minigrad.data.prefetching import prefetch
from minigrad.data.split import Split
from minigrad.data.text import ByteTokenizer, CharTokenizer, alice, sorting

__all__ = [
    "CIFAR10", "SHAPES", "ByteTokenizer", "CharTokenizer", "Digits", "ImageFiles", "ImageFolder", "Loader",
    "RandomCrop", "RandomHorizontalFlip", "Split", "alice", "batches", "cifar10", "digits", "image_folder", "mnist",
    "prefetch", "shapes", "sorting",
]  # fmt: skip
