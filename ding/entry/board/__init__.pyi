from ding.entry.board.server import serve_board as serve_board
