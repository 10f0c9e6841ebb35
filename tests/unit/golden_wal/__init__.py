"""The recorded logs of the golden cases through the decoder, without a server."""
