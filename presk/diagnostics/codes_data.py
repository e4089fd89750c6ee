"""Codes of what a data file holds, which are found when samples are read or written: by `presk data` and `presk train`."""

from typing import Final

from presk.diagnostics.code import Code, paragraphs

FILES: Final = (
    Code(
        "E8003",
        "element of a data file outside its type",
        paragraphs("""
            An array of a data file holds an index that is not below its bound, a truth value that is neither 0 nor 1, or a number
            that is not finite. The message names the array, the place and the value: `base.0[17]` is element 17, for windows of a
            text token 17. Nothing is clamped.

            It has no example, since only samples show it, and `presk check` reads no more of a data file than its header.
        """),
        paragraphs("""
            Write the data file again, with a larger bound in its sample type or without the wrong element. `presk data info` looks at
            every element.
        """),
        None,
    ),
    Code(
        "E8004",
        "text that does not fit its vocabulary",
        paragraphs("""
            A text cannot be made tokens: it is not UTF-8, it has a character that no token of the vocabulary begins with, or fewer
            tokens than one window; or the vocabulary is none. The message says at which line and column.

            It has no example, since it says nothing about a program: `presk data pack` reports it, and what reads a prompt.
        """),
        paragraphs("""
            Use the vocabulary of the data that the model was trained with, on texts of its characters. `--vocab bytes` fits every
            file.
        """),
        None,
    ),
    Code(
        "E8005",
        "data file that was changed while it was read",
        paragraphs("""
            The bytes of a data file were changed in place after a run had opened it. What was read before and what would be read
            now are not one data set, so the run ends.

            It has no example, since it takes two processes.
        """),
        paragraphs("""
            Write a data file under another name, or by renaming, as `presk data pack` does: a run that has it open then goes on with
            the old one. Start the run again, or resume it with the file as it was.
        """),
        None,
    ),
    Code(
        "E8006",
        "checkpoint that cannot be read",
        paragraphs("""
            A file that is named as a checkpoint, or as the parameters of a run, may not be read or is none: cut off, damaged, of
            another format, without the entries that every checkpoint has; or a folder has no checkpoint.

            It has no example, since it says nothing about a program.
        """),
        paragraphs("""
            Name the checkpoint before it: they are written under other names and renamed when they are whole, so an older one is
            never harmed by a newer one. `presk train --resume FOLDER` takes the newest.
        """),
        None,
    ),
    Code(
        "E8007",
        "checkpoint that does not fit",
        paragraphs("""
            A checkpoint is of another program than the one that reads it: the tree of its parameters has other names or shapes, or
            a run that is to be resumed would not go on as it began, because program, machine types, seed or batches are others.
            The message says what differs.

            It has no example, since it takes two programs.
        """),
        paragraphs("""
            Use the program that wrote it, with the same options. To go on from the parameters alone, with a new optimizer state,
            use `presk train --params FILE`.
        """),
        None,
    ),
    Code(
        "E8008",
        "checkpoint or log that cannot be written",
        paragraphs("""
            The disk is full, or the folder of the checkpoints may not be written to; or the file that `--log` names takes no
            more. The run ends where it is. The checkpoints that were there before are whole, and so is every line of the log.

            It has no example, since it says nothing about a program.
        """),
        paragraphs("""
            Make room, or name another folder, and go on with `presk train --resume`.
        """),
        None,
    ),
    Code(
        "E8009",
        "data of another vocabulary, or other data",
        paragraphs("""
            The data file that is given is not the one that belongs here: its tokens are not those that the parameters were trained
            with, or a run that is to be resumed began on a file with other contents.

            It has no example, since it takes two data files.
        """),
        paragraphs("""
            Give the file that the training had. A text is packed with the vocabulary of another data file by
            `presk data pack TEXT --vocab OTHER.psk.d`.
        """),
        None,
    ),
)
