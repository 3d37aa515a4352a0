"""Train a translator: an encoder, a decoder, and attention between them."""

from throughtime.tasks import Task


class TranslateTask(Task):
    """The declaration of the task: `throughtime train translate`."""

    name = "translate"
    title = "a translator"
    summary = "Train a translator: an encoder, a decoder, and attention between them."
    description = """
    By default, it is a GRU with attention, with a bidirectional encoder, and reads parts of words. After each
    epoch, BLEU is measured on validation sentences, and three translations are shown.
    """
    examples = (
        "train translate --data pairs.tsv --source en --target fr --out runs/en-fr",
        "train translate --data sentences.tsv --source Deutsch --target English --out runs/mine",
        "train translate --data multi30k/tok --source en --target de --epochs 30 --out runs/en-de",
        "train translate --data embedded/en-fr --set structure=context-and-input --out runs/plain",
        "train translate --show-config > my.yaml",
    )
    data = "pairs"
    config = "throughtime.tasks.translate.config:TranslateConfig"
    predictor = "throughtime.tasks.translate.predictor:Translator"
    objective = "throughtime.tasks.translate.training:prepare_training"
    exporter = "throughtime.tasks.translate.export:build_export"
    runner = "throughtime.tasks.translate.runner:TranslatorRunner"
    route = "throughtime.serve.translation:router"
